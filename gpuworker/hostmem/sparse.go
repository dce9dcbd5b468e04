package hostmem

import "sync"

const chunkBytes = 4096

// sparse is memory of which only the chunks that were written exist; the rest reads as zeros. Simulated devices keep gigabytes of KV pages of which they
// use a few bytes each.
type sparse struct {
	mu     sync.Mutex
	chunks map[int64]*[chunkBytes]byte
}

func (s *sparse) read(offset int64, dst []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(dst) > 0 {
		chunk, within := offset/chunkBytes, offset%chunkBytes
		n := min(int(chunkBytes-within), len(dst))
		if c := s.chunks[chunk]; c != nil {
			copy(dst[:n], c[within:])
		} else {
			clear(dst[:n])
		}
		dst, offset = dst[n:], offset+int64(n)
	}
}

func (s *sparse) write(offset int64, src []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(src) > 0 {
		chunk, within := offset/chunkBytes, offset%chunkBytes
		n := min(int(chunkBytes-within), len(src))
		c := s.chunks[chunk]
		if c == nil && !zeros(src[:n]) {
			c = new([chunkBytes]byte)
			s.chunks[chunk] = c
		}
		if c != nil {
			copy(c[within:], src[:n])
		}
		src, offset = src[n:], offset+int64(n)
	}
}

func zeros(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}
