// Package miniature makes small models with random weights, of every family and storage type that can be read. They say nothing sensible; they are real files with real shapes for tests.
package miniature

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"slicescheduler/gmg"
	"slicescheduler/model/ggufwrite"
	"slicescheduler/model/quant"
)

// ErrSpec is a specification that no model can have.
var ErrSpec = errors.New("bad miniature")

// Spec says what to make. Start from Default.
type Spec struct {
	Arch                string // llama or gemma3
	Layers, Hidden, FFN int
	Heads, KVHeads      int
	HeadDim, Context    int
	Window              int // gemma3: tokens of a local layer's window
	DType               gmg.DType
	Untied              bool // a head of its own
	RoPEFactors         bool // llama: per-frequency divisors as of Llama 3.1
	HeadCountPerLayer   bool // write head counts as arrays
	Seed                uint64
	ExtraTokens         int // vocabulary beyond the 256 bytes and 3 special tokens
	WithoutTemplate     bool
	AddBOS              bool // the tokenizer puts BOS before a text
}

// Default is a Llama of two layers that a test runs in milliseconds.
func Default() Spec {
	return Spec{Arch: "llama", Layers: 2, Hidden: 64, FFN: 128, Heads: 4, KVHeads: 2, HeadDim: 16, Context: 512, Window: 32, DType: gmg.Q8_0, Seed: 1}
}

// Validate says what is wrong with a specification.
func (s Spec) Validate() error {
	switch {
	case s.Arch != "llama" && s.Arch != "gemma3":
		return fmt.Errorf("%w: architecture %q, llama and gemma3 are possible", ErrSpec, s.Arch)
	case min(s.Layers, s.Hidden, s.FFN, s.Heads, s.KVHeads, s.HeadDim, s.Context) < 1:
		return fmt.Errorf("%w: sizes must be positive: %+v", ErrSpec, s)
	case s.Heads%s.KVHeads != 0 || s.HeadDim%2 != 0:
		return fmt.Errorf("%w: %d heads over %d, %d elements each", ErrSpec, s.Heads, s.KVHeads, s.HeadDim)
	}
	return nil
}

// Special tokens of every miniature.
const (
	TokenEnd   = 0 // <|endoftext|>
	TokenStart = 1 // <|im_start|>, BOS
	TokenStop  = 2 // <|im_end|>, EOS
	firstByte  = 3
)

const chatTemplate = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}" +
	"{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"

// maker holds what is needed while a file is made.
type maker struct {
	spec Spec
	b    ggufwrite.Builder
	rng  *rand.Rand
	err  error
}

// Make returns the GGUF file of a miniature. The same specification gives the same bytes.
func Make(s Spec) ([]byte, error) {
	m, err := build(s)
	if err != nil {
		return nil, err
	}
	return m.b.Bytes()
}

// MakeShards returns the same model in n files.
func MakeShards(s Spec, n int) ([][]byte, error) {
	m, err := build(s)
	if err != nil {
		return nil, err
	}
	return m.b.Shards(n)
}

func build(s Spec) (*maker, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	m := &maker{spec: s, rng: rand.New(rand.NewPCG(s.Seed, 0))}
	m.hyperparameters()
	m.tokenizer()
	m.tensors()
	return m, m.err
}

func (m *maker) hyperparameters() {
	s := m.spec
	set := func(key string, v int) { m.b.Set(s.Arch+"."+key, uint32(v)) }
	m.b.Set("general.architecture", s.Arch)
	m.b.Set("general.name", fmt.Sprintf("miniature %s %d", s.Arch, s.Seed))
	set("block_count", s.Layers)
	set("embedding_length", s.Hidden)
	set("context_length", s.Context)
	m.perLayer("attention.head_count", s.Heads)
	m.perLayer("attention.head_count_kv", s.KVHeads)
	set("feed_forward_length", s.FFN)
	set("attention.key_length", s.HeadDim)
	set("attention.value_length", s.HeadDim)
	m.b.Set(s.Arch+".attention.layer_norm_rms_epsilon", float32(1e-5))
	if s.Arch == "gemma3" {
		set("attention.sliding_window", s.Window)
		m.b.Set(s.Arch+".rope.freq_base", float32(1000000))
		return
	}
	set("rope.dimension_count", s.HeadDim)
	m.b.Set(s.Arch+".rope.freq_base", float32(10000))
}

func (m *maker) perLayer(key string, v int) {
	if !m.spec.HeadCountPerLayer {
		m.b.Set(m.spec.Arch+"."+key, uint32(v))
		return
	}
	values := make([]uint32, m.spec.Layers)
	for i := range values {
		values[i] = uint32(v)
	}
	m.b.Set(m.spec.Arch+"."+key, values)
}

// vocab is the number of tokens.
func (m *maker) vocab() int { return firstByte + 256 + m.spec.ExtraTokens }

// tokenizer is byte-level BPE with few merges.
func (m *maker) tokenizer() {
	tokens := []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}
	types := []int32{3, 3, 3}
	alphabet := byteAlphabet()
	for _, r := range alphabet {
		tokens, types = append(tokens, string(r)), append(types, 1)
	}
	merges := []string{}
	for i := range m.spec.ExtraTokens {
		left, right := alphabet['a'+i/26%26], alphabet['a'+i%26]
		name := string(left) + string(right)
		if i >= 26*26 {
			name = fmt.Sprintf("%s%d", name, i)
		} else {
			merges = append(merges, string(left)+" "+string(right))
		}
		tokens, types = append(tokens, name), append(types, 1)
	}
	m.b.Set("tokenizer.ggml.model", "gpt2")
	m.b.Set("tokenizer.ggml.pre", "gpt-2")
	m.b.Set("tokenizer.ggml.tokens", tokens)
	m.b.Set("tokenizer.ggml.token_type", types)
	m.b.Set("tokenizer.ggml.merges", merges)
	m.b.Set("tokenizer.ggml.bos_token_id", uint32(TokenStart))
	m.b.Set("tokenizer.ggml.eos_token_id", uint32(TokenStop))
	m.b.Set("tokenizer.ggml.add_bos_token", m.spec.AddBOS)
	if !m.spec.WithoutTemplate {
		m.b.Set("tokenizer.chat_template", chatTemplate)
	}
}

// byteAlphabet is GPT-2's character for each byte.
func byteAlphabet() (out [256]rune) {
	next := rune(256)
	for b := range out {
		if b >= 33 && b <= 126 || b >= 161 && b <= 172 || b >= 174 {
			out[b] = rune(b)
			continue
		}
		out[b] = next
		next++
	}
	return out
}

func (m *maker) tensors() {
	s := m.spec
	m.matrix("token_embd.weight", m.vocab(), s.Hidden)
	for i := range s.Layers {
		m.layer(fmt.Sprintf("blk.%d.", i))
	}
	m.norm("output_norm.weight", s.Hidden)
	if s.Untied {
		m.matrix("output.weight", m.vocab(), s.Hidden)
	}
	if s.RoPEFactors {
		factors := make([]float32, s.HeadDim/2)
		for i := range factors {
			factors[i] = float32(1 + 7*i/len(factors))
		}
		m.add("rope_freqs.weight", gmg.F32, factors, int64(len(factors)))
	}
}

func (m *maker) layer(prefix string) {
	s := m.spec
	m.norm(prefix+"attn_norm.weight", s.Hidden)
	m.matrix(prefix+"attn_q.weight", s.Heads*s.HeadDim, s.Hidden)
	m.matrix(prefix+"attn_k.weight", s.KVHeads*s.HeadDim, s.Hidden)
	m.matrix(prefix+"attn_v.weight", s.KVHeads*s.HeadDim, s.Hidden)
	m.matrix(prefix+"attn_output.weight", s.Hidden, s.Heads*s.HeadDim)
	m.norm(prefix+"ffn_norm.weight", s.Hidden)
	m.matrix(prefix+"ffn_gate.weight", s.FFN, s.Hidden)
	m.matrix(prefix+"ffn_up.weight", s.FFN, s.Hidden)
	m.matrix(prefix+"ffn_down.weight", s.Hidden, s.FFN)
	if s.Arch == "gemma3" {
		m.norm(prefix+"attn_q_norm.weight", s.HeadDim)
		m.norm(prefix+"attn_k_norm.weight", s.HeadDim)
		m.norm(prefix+"post_attention_norm.weight", s.Hidden)
		m.norm(prefix+"post_ffw_norm.weight", s.Hidden)
	}
}

// norm adds a vector near 1.
func (m *maker) norm(name string, n int) {
	values := make([]float32, n)
	for i := range values {
		values[i] = 1 + float32(m.rng.NormFloat64())*0.1
	}
	m.add(name, gmg.F32, values, int64(n))
}

// matrix adds weights that keep the size of what they multiply.
func (m *maker) matrix(name string, rows, cols int) {
	values := make([]float32, rows*cols)
	scale := 1 / math.Sqrt(float64(cols))
	for i := range values {
		values[i] = float32(m.rng.NormFloat64() * scale)
	}
	m.add(name, m.spec.DType, values, int64(cols), int64(rows))
}

// add quantises values; types that can only be read get random blocks with small scales instead.
func (m *maker) add(name string, dtype gmg.DType, values []float32, dims ...int64) {
	elements, size := dtype.BlockSize(), dtype.BlockBytes()
	if !dtype.Valid() || dims[0]%int64(elements) != 0 {
		m.err = errors.Join(m.err, fmt.Errorf("%w: rows of %d do not fit blocks of %d in %s", ErrSpec, dims[0], elements, name))
		return
	}
	data := make([]byte, len(values)/elements*size)
	if err := quant.Quantize(dtype, values, data); errors.Is(err, quant.ErrType) {
		m.randomBlocks(dtype, data, size, 1/math.Sqrt(float64(dims[0])))
	} else {
		m.err = errors.Join(m.err, err)
	}
	m.b.Tensor(name, dtype, data, dims...)
}

// randomBlocks fills blocks of a type with random bytes and sets their scales so that weights are of the size wanted.
func (m *maker) randomBlocks(dtype gmg.DType, data []byte, size int, scale float64) {
	for i := range data {
		data[i] = byte(m.rng.Uint32())
	}
	put := func(block []byte, at int, x float64) {
		h := quant.ToFloat16(float32(x))
		block[at], block[at+1] = byte(h), byte(h>>8)
	}
	for ; len(data) > 0; data = data[size:] {
		switch dtype {
		case gmg.Q5_0:
			put(data, 0, scale/9)
		case gmg.Q5_1:
			put(data, 0, scale/9)
			put(data, 2, -scale*15.5/9)
		case gmg.Q4_K:
			put(data, 0, scale/(32*4.6))
			put(data, 2, scale/(32*4.6)*7.5)
		case gmg.Q5_K:
			put(data, 0, scale/(32*9.2))
			put(data, 2, scale/(32*9.2)*15.5)
		case gmg.Q6_K:
			put(data, 208, scale/(74*18.5))
		}
	}
}
