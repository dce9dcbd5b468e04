// Package batching forms steps: admission, chunked prefill, the decode set, KV pages, prefix reuse, preemption by recompute and ageing. Tenant actors and
// the simulator share this one implementation, so a forecast schedules exactly as the runtime does.
//
// The package is pure: no goroutines, clocks, randomness, network or files. Time is an argument in integer nanoseconds.
//
// A caller's loop is
//
//	s, err := batching.New(config)            // ErrConfig
//	err = s.Add(request)                      // ErrRequest, ErrTooLarge, ErrQueueFull, ErrDuplicate
//	for s.Schedule(nowNs, &step) {            // false: nothing can be scheduled now
//		run(step)                         // compute every Item, sample where Item.Sample is set
//		err = s.Complete(&step)           // ErrStep; steps complete in the order they were scheduled
//		for each sampled token that ends its answer { err = s.Finish(id) } // ErrUnknown
//	}
//
// and at any time, also while steps are in flight:
//
//	s.Cancel(id)                              // its pages are free as soon as no step in flight uses them
//	s.Pause(id); s.Resume(id)                 // a paused sequence is not scheduled; it keeps its pages unless others need them
//	s.SealBlock(id, hash)                     // the hash of the sequence's next full page that has none yet (after Request.Blocks)
//	s.Resize(kvBlocks)                        // grow or shrink the pool
//	s.Stats(); s.Contains(id)
//
// A sequence that reached MaxTokens is not scheduled again, but stays until Finish or Cancel.
package batching
