package enginetest

import (
	"testing"

	"slicescheduler/model"
	"slicescheduler/model/miniature"
)

// Miniature opens a model of random weights, as change makes it (nil: the default one). It is closed when the test ends.
func Miniature(t testing.TB, change func(*miniature.Spec)) *model.Model {
	t.Helper()
	spec := miniature.Default()
	if change != nil {
		change(&spec)
	}
	data, err := miniature.Make(spec)
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.OpenBytes("miniature", data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}
