// Package embedded holds the two tiny trained chat models that every binary carries, so that a first run needs no download.
package embedded

import (
	"embed"
	"fmt"
)

//go:embed tiny-story.q8_0.gguf tiny-guide.q8_0.gguf
var files embed.FS

// Names lists the models.
func Names() []string { return []string{"tiny-guide", "tiny-story"} }

// File returns a copy of a model's GGUF file.
func File(name string) ([]byte, error) {
	data, err := files.ReadFile(name + ".q8_0.gguf")
	if err != nil {
		return nil, fmt.Errorf("no embedded model %q: %w", name, err)
	}
	return data, nil
}
