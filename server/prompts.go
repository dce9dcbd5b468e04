package server

import (
	"encoding/json"
)

// prompt is one completion's input: text, or tokens when these are not nil.
type prompt struct {
	text   string
	tokens []int32
}

const promptKind = "a string, an array of strings, an array of token ids or an array of such arrays"

// prompts reads the prompt field in its four forms.
func prompts(f *fields) []prompt {
	raw := f.take("prompt")
	if raw == nil {
		f.fail(badField("prompt", "is required: %s", promptKind))
		return nil
	}
	if raw[0] == '"' {
		return []prompt{{text: f.text("prompt")}}
	}
	var items []json.RawMessage
	if !f.decode("prompt", promptKind, &items) {
		return nil
	}
	if len(items) == 0 {
		f.fail(badField("prompt", "is an empty array"))
		return nil
	}
	if kind := items[0][0]; kind != '"' && kind != '[' {
		return []prompt{{tokens: tokenIDs(f, raw)}}
	}
	list := make([]prompt, len(items))
	for i, item := range items {
		if item[0] != items[0][0] {
			f.fail(badField("prompt", "item %d is %s, but the first is %s", i, kindOf(item), kindOf(items[0])))
			return nil
		}
		if item[0] == '[' {
			list[i].tokens = tokenIDs(f, item)
		} else if err := json.Unmarshal(item, &list[i].text); err != nil {
			f.fail(wrongType("prompt", promptKind, item))
		}
	}
	return list
}

func tokenIDs(f *fields, raw json.RawMessage) []int32 {
	var ids []*int32 // a pointer, for null would pass as 0
	if err := json.Unmarshal(raw, &ids); err != nil {
		f.fail(badField("prompt", "token ids must be integers of 0 up to the vocabulary"))
		return nil
	}
	tokens := make([]int32, len(ids))
	for i, id := range ids {
		if id == nil || *id < 0 {
			f.fail(badField("prompt", "token id at place %d must not be negative or null", i))
			return nil
		}
		tokens[i] = *id
	}
	return tokens
}
