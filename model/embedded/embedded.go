// Package embedded holds the two tiny trained chat models that every binary carries, so that a first run needs no download.
package embedded

import (
	"embed"
	"fmt"
)

// suffix is what files have behind their model's name.
const suffix = ".q8_0.gguf"

//go:embed tiny-story.q8_0.gguf tiny-guide.q8_0.gguf
var files embed.FS

// Names lists the models.
func Names() []string { return []string{"tiny-guide", "tiny-story"} }

// Size returns the bytes of a model's file.
func Size(name string) (int64, error) {
	f, err := files.Open(name + suffix)
	if err != nil {
		return 0, fmt.Errorf("no embedded model %q: %w", name, err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// File returns a copy of a model's GGUF file.
func File(name string) ([]byte, error) {
	data, err := files.ReadFile(name + suffix)
	if err != nil {
		return nil, fmt.Errorf("no embedded model %q: %w", name, err)
	}
	return data, nil
}
