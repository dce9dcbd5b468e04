package tokenizer

import "unicode/utf8"

// maxByteRune is one more than the largest character of GPT-2's alphabet.
const maxByteRune = 256 + 68

// byteOfRune turns the characters of GPT-2's alphabet back into the bytes that they stand for, -1 for all others: printable bytes stand for themselves, the 68 others
// for the characters from 256 on in order.
var byteOfRune = func() (t [maxByteRune]int16) {
	next := 256
	for i := range t {
		t[i] = -1
	}
	for b := range 256 {
		if b >= 33 && b <= 126 || b >= 161 && b <= 172 || b >= 174 {
			t[b] = int16(b)
			continue
		}
		t[next] = int16(b)
		next++
	}
	return t
}()

// decodeByteLevel appends the bytes of a token of byte-level BPE. Special tokens are written as they are. merges says that merging may yield the token: one that is not written in
// the alphabet is an added token, and must not stand in the way of the one that is.
func decodeByteLevel(dst []byte, text []byte, typ Type) (out []byte, merges bool) {
	if typ != Normal && typ != Unused {
		return append(dst, text...), typ == UserDefined && printable(text)
	}
	return appendByteLevel(dst, text)
}

// printable says whether the alphabet writes text as it is.
func printable(text []byte) bool {
	for _, b := range text {
		if b < 33 || b > 126 {
			return false
		}
	}
	return true
}

// appendByteLevel turns text in GPT-2's alphabet into bytes; characters outside it stay as they are, and inside is then false.
func appendByteLevel(dst, text []byte) (out []byte, inside bool) {
	inside = true
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r < maxByteRune && byteOfRune[r] >= 0 {
			dst = append(dst, byte(byteOfRune[r]))
		} else {
			dst = append(dst, text[:size]...)
			inside = false
		}
		text = text[size:]
	}
	return dst, inside
}
