// SPDX-License-Identifier: Apache-2.0

package main

const (
	auditArch    = 0xc00000b7
	firstForeign = 0x40000000
	setPriority  = 140
)

// callsByPid: sched_setparam, sched_setscheduler, sched_setaffinity, prlimit64, sched_setattr.
var callsByPid = []uint32{118, 119, 122, 261, 274}
