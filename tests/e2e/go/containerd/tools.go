//go:build tools

// Package containerd names the programs of the container runtime of the end-to-end tests, so that go.mod pins all they are made of.
package containerd

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
	_ "github.com/containerd/containerd/v2/cmd/ctr"
)
