//go:build tools

// Package helm names the program that installs the chart in the end-to-end tests, so that go.mod pins all it is made of.
package helm

import (
	_ "helm.sh/helm/v4/cmd/helm"
)
