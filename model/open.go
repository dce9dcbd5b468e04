package model

import (
	"errors"

	"slicescheduler/model/gguf"
)

// Open maps a model file (or all shards of a sharded one) and builds its graph and tokenizer. Nothing of the weights is read. Errors name file, offset and
// reason, and are ErrFormat, ErrUnsupported or the system's.
func Open(path string) (*Model, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	return fromFile(f)
}

// OpenBytes opens a model whose file is in memory; name stands for its path. The bytes must not change while the model is in use.
func OpenBytes(name string, data []byte) (*Model, error) {
	f, err := gguf.OpenBytes(name, data)
	if err != nil {
		return nil, err
	}
	return fromFile(f)
}

// fromFile owns the file: it is closed when the model cannot be made.
func fromFile(f *gguf.File) (*Model, error) {
	g, err := buildGraph(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	t, err := readTokenizer(f, g.Vocab)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	m := &Model{Name: g.Name, Path: f.Path(), Graph: g, Tokenizer: t, FileBytes: f.Bytes(), weights: ggufWeights{f, g}}
	for _, t := range f.Tensors() {
		m.Parameters += t.Elements()
	}
	m.readTemplate(f)
	return m, nil
}

// readTemplate parses the file's chat template. A template that cannot be parsed is an error of chats, not of the model: completions work without.
func (m *Model) readTemplate(f *gguf.File) {
	source, ok := f.String("tokenizer.chat_template")
	if !ok || source == "" {
		return
	}
	t, err := parseTemplate("the model's chat template", source)
	if err != nil {
		m.templateErr = err
		return
	}
	m.Template = t.withTokens(m.tokenText(m.Tokenizer.BOS()), m.tokenText(m.Tokenizer.EOS()))
}
