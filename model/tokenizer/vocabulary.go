package tokenizer

import "hash/maphash"

// vocabulary holds all tokens' bytes in one string and finds tokens by them. For a large vocabulary this is many times smaller and faster to
// build than a map of strings.
type vocabulary struct {
	texts string
	ends  []uint32 // token i is texts[ends[i-1]:ends[i]]
	types []Type
	seed  maphash.Seed
	table []int32 // open addressing; id+1, 0 for empty
}

// newVocabulary decodes each token's text into the bytes that it stands for. Only tokens that ordinary text may become can be found: a control token's text in
// user text is not that token.
func newVocabulary(c Config) *vocabulary {
	v := &vocabulary{seed: maphash.MakeSeed()}
	size := 16
	for size < 2*c.Count {
		size *= 2
	}
	v.table = make([]int32, size)
	v.ends = make([]uint32, 0, c.Count)
	v.types = make([]Type, 0, c.Count)
	texts := make([]byte, 0, 8*c.Count) // about what vocabularies need
	mergeable := make([]int32, 0, c.Count)
	decode := decodeSPM
	if c.Model == "gpt2" {
		decode = decodeByteLevel
	}
	for i, text := range c.Tokens {
		typ := Normal
		if c.Types != nil {
			typ = Type(c.Types[i])
		}
		var merge bool
		texts, merge = decode(texts, text, typ)
		if merge {
			mergeable = append(mergeable, int32(i))
		}
		v.ends = append(v.ends, uint32(len(texts)))
		v.types = append(v.types, typ)
	}
	v.texts = string(texts)
	for _, id := range mergeable {
		v.insert(id)
	}
	return v
}

// text returns a token's bytes.
func (v *vocabulary) text(id int32) string {
	from := uint32(0)
	if id > 0 {
		from = v.ends[id-1]
	}
	return v.texts[from:v.ends[id]]
}

// slot returns where a text is in the table, or the empty place where it would go.
func (v *vocabulary) slot(text string) int {
	mask := len(v.table) - 1
	i := int(maphash.String(v.seed, text)) & mask
	for v.table[i] != 0 && v.text(v.table[i]-1) != text {
		i = (i + 1) & mask
	}
	return i
}

// insert adds a token; of equal texts the lowest id stays.
func (v *vocabulary) insert(id int32) {
	if i := v.slot(v.text(id)); v.table[i] == 0 {
		v.table[i] = id + 1
	}
}

// find returns the token of a text, -1 when there is none.
func (v *vocabulary) find(text string) int32 { return v.table[v.slot(text)] - 1 }
