// Package cluster lets nodes find each other and agree on who is there.
//
// A Membership is one node's view of its cluster, gossiped by hashicorp/memberlist. A node needs nobody to start: alone it is a cluster of one, and it tries
// its seeds (addresses, DNS names, mDNS on the local network) for as long as it lives, so nodes that start at once and partitions that heal end up
// in one cluster. What memberlist carries of a node stays far below its limit of 512 bytes (Meta); all else are facts of the GMG, which package
// cluster/replica spreads. Package cluster/placement says which node acts for a tenant, package cluster/secret what nodes trust each other by.
//
// Traps of memberlist that this package avoids, each with a test: metadata over 512 bytes panics; calling back into it from its notifications deadlocks,
// so events pass through a queue; a node that restarts under its old name is refused or not announced, so names are unique for each life.
package cluster
