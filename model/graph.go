package model

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
	"path/filepath"
	"strings"

	"slicescheduler/gmg"
	"slicescheduler/model/gguf"
)

// Names of tensors outside layers.
const (
	embeddingTensor = "token_embd.weight"
	finalNormTensor = "output_norm.weight"
	headTensor      = "output.weight"
	ropeFreqsTensor = "rope_freqs.weight"
)

// buildGraph turns a file into its operator graph: stage 0 embeds, then the layers, the last stage is the head. Layers whose operators and weights are
// alike, storage types included, share a block.
func buildGraph(f *gguf.File) (*gmg.Graph, error) {
	fam, err := familyOf(f)
	if err != nil {
		return nil, err
	}
	h := &hyper{file: f, arch: fam.arch}
	d, err := readDecoder(h)
	if err != nil {
		return nil, err
	}
	lay, err := fam.prepare(h, d)
	if err != nil {
		return nil, err
	}
	embedding, ok := f.Tensor(embeddingTensor)
	if !ok || embedding.Rows() > maxWidth {
		return nil, fmt.Errorf("%s: %w: tensor %q is missing or has more than %d rows", f.Path(), ErrFormat, embeddingTensor, maxWidth)
	}
	a := &assembly{file: f, used: make(map[string]bool), blocks: make(map[string]uint16)}
	a.graph = &gmg.Graph{Name: modelName(f), Family: fam.arch, Layers: d.layers, Hidden: d.hidden, Vocab: int(embedding.Rows()), ContextTokens: d.context}
	if err := a.stages(d, lay); err != nil {
		return nil, err
	}
	for _, name := range lay.extra {
		a.used[name] = true
	}
	for _, t := range f.Tensors() {
		if !a.used[t.Name] {
			return nil, fmt.Errorf("%s: %w: tensor %q has no place in family %s", f.Path(), ErrUnsupported, t.Name, fam.arch)
		}
	}
	a.graph.ID = graphID(f, a.graph)
	if err := a.graph.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", f.Path(), ErrFormat, err)
	}
	return a.graph, nil
}

// assembly puts stages together.
type assembly struct {
	file   *gguf.File
	graph  *gmg.Graph
	used   map[string]bool
	blocks map[string]uint16 // by their description
}

func (a *assembly) stages(d decoder, lay layout) error {
	b := newBlock(a.file, a.used, "embedding", "", d.hidden)
	b.embed(embeddingTensor, a.graph.Vocab, lay.embedScale)
	if err := a.stage(b); err != nil {
		return err
	}
	for i := range d.layers {
		b := newBlock(a.file, a.used, "layer", layerPrefix(i), d.hidden)
		lay.layer(b, i)
		if err := a.stage(b); err != nil {
			return err
		}
	}
	head := headTensor
	if _, untied := a.file.Tensor(headTensor); !untied {
		head, a.graph.TiedHead = embeddingTensor, true
	}
	b = newBlock(a.file, a.used, "head", "", d.hidden)
	b.head(finalNormTensor, head, a.graph.Vocab, d.eps, lay.softCap)
	return a.stage(b)
}

// stage appends a stage and shares its block with an equal one.
func (a *assembly) stage(b *blockBuilder) error {
	if b.err != nil {
		return b.err
	}
	key := fmt.Sprintf("%+v", b.block)
	i, known := a.blocks[key]
	if !known {
		i = uint16(len(a.graph.Blocks))
		a.blocks[key] = i
		a.graph.Blocks = append(a.graph.Blocks, b.block)
	}
	a.graph.Stages = append(a.graph.Stages, i)
	return nil
}

func layerPrefix(layer int) string { return fmt.Sprintf("blk.%d.", layer) }

// modelName is the file's own name, else that of its path.
func modelName(f *gguf.File) string {
	if name, ok := f.String("general.name"); ok && name != "" {
		return name
	}
	return strings.TrimSuffix(filepath.Base(f.Path()), ".gguf")
}

// contentSample is how many bytes of each tensor's beginning, middle and end go into a graph's id.
const contentSample = 64

// graphID hashes a model's structure, the names, types and sizes of its tensors, and a sample of their bytes, so that equal files share one graph and
// different ones never do by accident. It reads a few kilobytes, not the file.
func graphID(f *gguf.File, g *gmg.Graph) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %d %d %d %d\n", g.Family, g.Layers, g.Hidden, g.Vocab, g.ContextTokens)
	for _, i := range g.Stages {
		fmt.Fprintf(h, "%d ", i)
	}
	for _, b := range g.Blocks {
		fmt.Fprintf(h, "%+v\n", b)
	}
	for _, t := range f.Tensors() {
		fmt.Fprintf(h, "%q %v %v %d\n", t.Name, t.Type, t.Dims, t.Bytes)
		sampleContent(h, f.Data(t))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func sampleContent(h hash.Hash, data []byte) {
	n := len(data)
	for _, from := range [...]int{0, n / 2, n - contentSample} {
		from = max(0, from)
		h.Write(data[from:min(n, from+contentSample)])
	}
}

// float32s decodes little-endian floats.
func float32s(b []byte) []float32 {
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}
