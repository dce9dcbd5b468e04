package sampling

// uniform returns the random number in [0, 1) that decides a token: a function of the answer's seed and the token's index in it, so that it needs no
// state which a restart could lose.
func uniform(seed, index uint64) float64 {
	const golden = 0x9e3779b97f4a7c15
	return float64(scramble(scramble(seed+golden)^(index*golden+golden))>>11) / (1 << 53)
}

// scramble is the finaliser of splitmix64 (Steele, Lea, Flood 2014).
func scramble(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
