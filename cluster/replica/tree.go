package replica

import (
	"math/bits"

	"slicescheduler/cluster/placement"
	"slicescheduler/gmg"
)

// treeBits is how many times rarer each level of the tree is than the one below, as a power of two.
const treeBits = 3

// level is a node's height in the tree: 0 for seven of eight nodes, 1 for seven of eight of the others, and so on.
func level(n gmg.NodeID) int {
	return bits.TrailingZeros64(placement.Score("level", n)|1<<60) / treeBits
}

// above says whether a stands above b in the order of roots.
func above(a, b gmg.NodeID) bool {
	if la, lb := level(a), level(b); la != lb {
		return la > lb
	}
	return placement.Score("root", a) > placement.Score("root", b)
}

// parentOf chooses a node's place in the spanning tree: below one of the nodes of higher levels, by rendezvous hashing, so that who joins or leaves moves few
// links; where no level is higher, below the root. The root has none. Nodes that avoid names are passed over while others are there. 1,000 nodes hang about
// four links deep, and have some 7 links for each level they are high.
func parentOf(self gmg.NodeID, members []gmg.NodeID, avoid map[gmg.NodeID]int64) gmg.NodeID {
	var best, root gmg.NodeID
	var bestScore uint64
	own := level(self)
	for _, n := range members {
		if _, shunned := avoid[n]; n == self || shunned {
			continue
		}
		if root == "" || above(n, root) {
			root = n
		}
		if score := placement.Score(string(self), n); level(n) > own && (best == "" || score > bestScore) {
			best, bestScore = n, score
		}
	}
	switch {
	case best != "":
		return best
	case root != "" && above(root, self):
		return root
	}
	return ""
}
