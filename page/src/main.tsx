import { render } from 'preact'
import { App } from './app'
import { connect } from './state/live'
import './style.css'

render(<App />, document.getElementById('app')!)
void connect()
