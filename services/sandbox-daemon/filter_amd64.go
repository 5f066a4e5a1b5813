// SPDX-License-Identifier: Apache-2.0

package main

const (
	auditArch = 0xc000003e
	// Numbers of x32 begin here.
	firstForeign = 0x40000000
	setPriority  = 141
)

// callsByPid: sched_setparam, sched_setscheduler, sched_setaffinity, prlimit64, sched_setattr.
var callsByPid = []uint32{142, 144, 203, 302, 314}
