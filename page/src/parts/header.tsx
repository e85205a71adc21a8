// Header: where one can go, search, whether the page is live, and the theme.
import { beat, cluster, live, retry } from '../state/live'
import { route } from '../state/route'
import { dark, sheetOpen, theme } from '../state/view'
import { capital, clock, number, sentence } from '../text'
import { Link } from './common'
import { Search } from './search'

export function Header() {
  beat.value
  const { view } = route.value
  const inCluster = !['plan', 'usage', 'policies'].includes(view)
  const waits = cluster.totals.waitingPods
  const item = (path: string, text: string, current: boolean, badge = '') => (
    <Link to={path} class={`nav-item ${current ? 'current' : ''}`} onGo={() => (sheetOpen.value = path === 'plan')}>
      {text}
      {badge && (
        <span class="badge warn" title={`${badge} pods wait`}>
          {badge}
        </span>
      )}
    </Link>
  )
  return (
    <header class="top">
      <Link to="" class="mark" label="Linkwise" onGo={() => (sheetOpen.value = false)}>
        <svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true">
          <path d="M12 5 5 18M12 5l7 13M5 18h14" />
          <circle cx="12" cy="5" r="3.4" />
          <circle cx="5" cy="18" r="3.4" />
          <circle cx="19" cy="18" r="3.4" class="teal" />
        </svg>
        <span>Linkwise</span>
      </Link>
      <nav aria-label="Views">
        {item('', 'Cluster', inCluster, waits > 0 ? number(waits) : '')}
        {item('plan', 'Plan', view === 'plan')}
        {item('usage', 'Usage', view === 'usage')}
        {item('policies', 'Policies', view === 'policies')}
      </nav>
      <Search />
      <LiveState />
      <button
        type="button"
        class="theme"
        aria-label={`Switch to the ${dark.value ? 'light' : 'dark'} theme`}
        onClick={() => (theme.value = dark.value ? 'light' : 'dark')}
      >
        <svg viewBox="0 0 16 16" width="15" height="15" aria-hidden="true">
          <circle cx="8" cy="8" r="6.2" fill="none" stroke="currentColor" stroke-width="1.5" />
          <path d="M8 1.8a6.2 6.2 0 0 1 0 12.4z" fill="currentColor" />
        </svg>
      </button>
    </header>
  )
}

function LiveState() {
  const now = live.value
  if (now.state === 'live')
    return (
      <span class="live" role="status">
        <i class="dot good" />
        live
      </span>
    )
  if (now.state === 'connecting')
    return (
      <span class="live" role="status">
        <i class="dot" />
        connecting
      </span>
    )
  const { stale } = now
  return (
    <button type="button" class="live" title={`${sentence(capital(now.sentence))} Click to try again now.`} onClick={retry}>
      <i class={`dot ${stale ? 'bad' : 'warn'}`} />
      <span role="status">{stale ? `stale since ${clock(now.since)}` : 'reconnecting'}</span>
    </button>
  )
}
