package link

import (
	"slices"
	"time"

	"slicescheduler/gmg"
)

// maxPending is how many messages wait for a session to open; more are dropped.
const maxPending = 1024

// peer is a node that this one sends to. Its goroutine keeps a session open. The hub's lock guards it.
type peer struct {
	node    gmg.NodeID
	address string
	session *Session
	pending []frame
	change  chan struct{} // closed when the address changes or the peer is forgotten
	gone    bool
}

// SetPeers says which other nodes there are and where. Sessions with nodes that are gone, or are elsewhere now, end.
func (h *Hub) SetPeers(addresses map[gmg.NodeID]string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for node, p := range h.peers {
		if address, there := addresses[node]; !there || address != p.address {
			p.gone = true
			close(p.change)
			delete(h.peers, node)
			if p.session != nil {
				p.session.Close()
			}
		}
	}
	for node, address := range addresses {
		if h.peers[node] == nil && node != h.config.Node && address != "" && h.ended.Err() == nil {
			p := &peer{node: node, address: address, change: make(chan struct{})}
			h.peers[node] = p
			h.running.Go(func() { h.keep(p) })
		}
	}
}

// Peers lists the nodes to which a session is open, by name.
func (h *Hub) Peers() []gmg.NodeID {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []gmg.NodeID
	for node, p := range h.peers {
		if p.session != nil {
			list = append(list, node)
		}
	}
	slices.Sort(list)
	return list
}

// Send sends a message on the session that this node has opened to another, or once it opens. It returns the session, nil while there is none. Messages to nodes that
// aren't peers, and those that a session's end catches, are lost.
func (h *Hub) Send(to gmg.NodeID, kind byte, body []byte) (*Session, error) {
	h.mu.Lock()
	p := h.peers[to]
	if p == nil {
		h.mu.Unlock()
		return nil, ErrClosed
	}
	s := p.session
	if s == nil {
		if len(p.pending) < maxPending && len(body) <= MaxMessageBytes {
			p.pending = append(p.pending, frame{kind, body})
		}
		h.mu.Unlock()
		return nil, nil
	}
	h.mu.Unlock()
	return s, s.Send(kind, body)
}

// Session returns the open session to a node, or nil.
func (h *Hub) Session(to gmg.NodeID) *Session {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.peers[to]; p != nil {
		return p.session
	}
	return nil
}

// keep keeps a session with a peer open until it is forgotten.
func (h *Hub) keep(p *peer) {
	wait := h.config.Timing.Retry
	last := ""
	for {
		s, err := h.dial(h.ended, p.address, p.node, PurposeMessages)
		if err == nil && h.opened(p, s) {
			wait, last = h.config.Timing.Retry, ""
			h.run(s, h.config.Dialled)
		} else if err != nil && h.ended.Err() == nil {
			if text := err.Error(); text != last {
				last = text
				h.config.Logger.Warn("node can't be reached, will try again", "peer", p.node, "error", err)
			}
			h.dropPending(p)
		}
		h.mu.Lock()
		p.session = nil
		h.mu.Unlock()
		select {
		case <-time.After(wait):
			wait = min(2*wait, h.config.Timing.RetryMax)
		case <-p.change:
			return
		case <-h.ended.Done():
			return
		}
	}
}

// opened makes a session the one that Send uses. What waited for it goes first.
func (h *Hub) opened(p *peer, s *Session) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.gone || h.ended.Err() != nil {
		s.Close()
		return false
	}
	for _, f := range p.pending {
		_ = s.Send(f.kind, f.body) // the session is new, and pending messages are few
	}
	p.pending, p.session = nil, s
	return true
}

func (h *Hub) dropPending(p *peer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p.pending = nil
}
