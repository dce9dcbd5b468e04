package whatif

// stretch draws what noise adds to each slice of a flight.
func (w *island) stretch(l *lane, f *flight) {
	for k := range f.lag {
		f.lag[k] = w.spec.Noise.lagNs(l, f.number, k, f.total[k])
	}
}

// lagNs is what noise adds to a run of `totalNs`. It is a hash of the seed and of which run it is, so that neither the order of events nor leaps change it.
func (n *Noise) lagNs(l *lane, number uint64, slice int, totalNs int64) int64 {
	if n.StepPct == 0 && n.HiccupEvery == 0 {
		return 0
	}
	h := splitMix(splitMix(n.Seed^l.key) ^ number<<8 ^ uint64(slice))
	ns := int64(0)
	if n.StepPct > 0 {
		ns = int64(float64(totalNs) * float64(n.StepPct) / 100 * float64(h>>40) / (1 << 24))
	}
	if n.HiccupEvery > 0 && splitMix(h)%uint64(n.HiccupEvery) == 0 {
		ns += n.HiccupNs
	}
	return ns
}

// splitMix is the output function of SplitMix64 (Steele, Lea and Flood, 2014).
func splitMix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
