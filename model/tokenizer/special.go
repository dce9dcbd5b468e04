package tokenizer

import "slices"

// specials finds the tokens that are matched in text as they are, before anything else: the leftmost, and of those the longest.
type specials struct {
	ids   map[string]int32
	types []Type
	// lengths holds, by first byte, the lengths of all such tokens, longest first.
	lengths [256][]int
}

func newSpecials(v *vocabulary) specials {
	s := specials{ids: make(map[string]int32), types: v.types}
	for i, typ := range v.types {
		if typ != Control && typ != UserDefined && typ != Unknown {
			continue
		}
		text := v.text(int32(i))
		if text == "" {
			continue
		}
		if _, dup := s.ids[text]; dup {
			continue
		}
		s.ids[text] = int32(i)
		if l := &s.lengths[text[0]]; !slices.Contains(*l, len(text)) {
			*l = append(*l, len(text))
		}
	}
	for i := range s.lengths {
		slices.SortFunc(s.lengths[i], func(a, b int) int { return b - a })
	}
	return s
}

// next finds the first special token at or after from: text[start:end] is the token id. Without one it returns the text's end twice and -1. Control tokens count only
// when parse is true and they lie outside all literal spans.
func (s *specials) next(text string, from int, parse bool, literal []Span) (start, end int, id int32) {
	for i := from; i < len(text); i++ {
		lengths := s.lengths[text[i]]
		if len(lengths) == 0 {
			continue
		}
		for len(literal) > 0 && literal[0].To <= i {
			literal = literal[1:]
		}
		for _, n := range lengths {
			if n > len(text)-i {
				continue
			}
			id, ok := s.ids[text[i:i+n]]
			if !ok || s.types[id] != UserDefined && (!parse || len(literal) > 0 && literal[0].From < i+n) {
				continue
			}
			return i, i + n, id
		}
	}
	return len(text), len(text), -1
}
