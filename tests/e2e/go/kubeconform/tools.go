//go:build tools

// Package kubeconform names the program that validates manifests in the end-to-end tests, so that go.mod pins all it is made of.
package kubeconform

import (
	_ "github.com/yannh/kubeconform/cmd/kubeconform"
)
