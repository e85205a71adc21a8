//go:build tools

// Package volcano names the programs of Volcano that the end-to-end tests run, so that go.mod pins all they are made of.
package volcano

import (
	_ "volcano.sh/volcano/cmd/controller-manager"
	_ "volcano.sh/volcano/cmd/scheduler"
)
