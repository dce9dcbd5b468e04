// Package placement says which node acts for a tenant or a cell, and makes sure that no two do at the same time.
//
// Who should: rendezvous hashing over the members that a node sees (Rank). Views differ for a while, so that alone decides nothing.
//
// Who may: each key has voters, a set of nodes (of a tenant: those whose devices its lanes are on). A claimant acts only while a majority of the voters has
// granted it a lease, and voters grant at most one at a time. The rule, all of which the guarantee needs:
//
//   - A voter grants an epoch only if it is above all that it granted, and the lease it granted to another claimant has run out on its own clock or was given back.
//   - A voter that has started grants nothing for one lease: it has forgotten what it granted before.
//   - A claimant counts a lease from the moment it asked, on its own clock, and gives up Lease x MaxDriftPct early.
//   - Voters change only together with a claim that has majorities of both the old and the new set.
//   - Devices refuse commands of an epoch below the highest they have seen (Fence): one that was stopped while it acted, and wakes after its lease, does no harm.
//
// Clocks need not agree, only run at the same pace to within MaxDriftPct. Any two majorities share a voter, so two claimants never act at once, whatever is
// cut off, lost, delayed or repeated; the side of a partition with most of the devices goes on. The package is pure: times are arguments.
package placement

import (
	"cmp"
	"slices"

	"slicescheduler/gmg"
)

// Score is the weight of a node for a key (Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998): FNV-1a over both, mixed.
func Score(key string, node gmg.NodeID) uint64 {
	h := uint64(14695981039346656037)
	for _, text := range []string{key, string(node)} {
		for i := range len(text) {
			h = (h ^ uint64(text[i])) * 1099511628211
		}
		h = (h ^ 0xff) * 1099511628211 // no byte of UTF-8: ("a", "bc") and ("ab", "c") differ
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// Rank orders nodes by their claim to a key, best first. When one goes, only its keys move; when one comes, it takes its share and nothing else moves.
func Rank(key string, nodes []gmg.NodeID) []gmg.NodeID {
	ranked := slices.Clone(nodes)
	slices.SortFunc(ranked, func(a, b gmg.NodeID) int {
		return cmp.Or(cmp.Compare(Score(key, b), Score(key, a)), cmp.Compare(a, b))
	})
	return ranked
}

// Owner returns the node that should act for a key, "" without nodes.
func Owner(key string, nodes []gmg.NodeID) gmg.NodeID {
	if len(nodes) == 0 {
		return ""
	}
	return slices.MinFunc(nodes, func(a, b gmg.NodeID) int {
		return cmp.Or(cmp.Compare(Score(key, b), Score(key, a)), cmp.Compare(a, b))
	})
}
