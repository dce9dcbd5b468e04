package cpu_test

import (
	"testing"

	"slicescheduler/gpuworker"
	"slicescheduler/gpuworker/cpu"
	"slicescheduler/gpuworker/enginetest"
	"slicescheduler/model"
)

// mover moves a sequence, or the lane under it, before each step.
type mover struct {
	t       *testing.T
	setting setting
	engine  *enginetest.Engine // where the sequence is
	other   *enginetest.Engine // where it goes next
	seq     *enginetest.Sequence
	parts   []enginetest.Part // of the sequence's steps: companions stay at home
	home    []enginetest.Part
	devices []gpuworker.Device
	stages  int
	steps   int
}

func (s setting) mover(t *testing.T, m *model.Model, home *enginetest.Engine, seq *enginetest.Sequence, parts []enginetest.Part) *mover {
	v := &mover{t: t, setting: s, engine: home, seq: seq, parts: parts, home: parts, stages: len(m.Graph.Stages)}
	if s.reshape || s.migrate {
		v.devices = open(t, 3, cpu.Config{Kernels: s.kernels, Cores: s.cores})
	}
	if s.migrate {
		v.other = enginetest.New(t, m, enginetest.Config{Devices: v.devices[:2], Cuts: []int{v.stages - 2}, KVBlocks: 128, MaxRows: 512, MaxLogits: 8})
	}
	return v
}

// next returns the engine that runs the next step.
func (v *mover) next() *enginetest.Engine {
	v.steps++
	if v.setting.migrate {
		v.engine.MigrateTo(v.other, v.seq)
		v.engine, v.other = v.other, v.engine
		v.parts = v.home
		if v.steps%2 == 1 { // away from home it runs alone
			for _, p := range v.home {
				if p.Sequence == v.seq {
					v.parts = []enginetest.Part{p}
				}
			}
		}
	}
	if v.setting.reshape {
		d := v.devices
		switch v.steps % 4 {
		case 0:
			v.engine.Reshape(d[:1], nil)
		case 1:
			v.engine.Reshape(d[:2], []int{v.stages / 2})
		case 2:
			v.engine.Reshape([]gpuworker.Device{d[0], d[1], d[0]}, []int{v.stages / 2, v.stages - 1})
		case 3:
			v.engine.Reshape([]gpuworker.Device{d[2], d[1], d[0]}, []int{1, v.stages - 1})
		}
	}
	return v.engine
}
