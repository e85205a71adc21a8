//go:build tools

// Package actionlint names the program that checks the workflows of GitHub, so that go.mod pins all it is made of.
package actionlint

import (
	_ "github.com/rhysd/actionlint/cmd/actionlint"
)
