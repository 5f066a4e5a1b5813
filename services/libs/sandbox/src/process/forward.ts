// SPDX-License-Identifier: Apache-2.0
import { SandboxError } from "../failure.ts";
import type { Execution, Sandbox } from "../sandbox.ts";
import { SOCKETS } from "./arguments.ts";

/** Arguments: port, socket, port, socket … A process for each connection. Perl is on every Debian, and starts in milliseconds. */
const PROGRAM = `
use strict; use IO::Select; use IO::Socket::INET; use IO::Socket::UNIX;
$SIG{CHLD} = "IGNORE"; $| = 1;
my (%to, $all); $all = IO::Select->new;
while (my ($port, $path) = splice(@ARGV, 0, 2)) {
  my $listener = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $port, Listen => 64, ReuseAddr => 1) or die "port $port: $!";
  $to{$listener} = $path; $all->add($listener);
}
print "ready\\n";
while (my @ready = $all->can_read) { for my $listener (@ready) {
  my $near = $listener->accept or next;
  my $pid = fork; if (!defined $pid || $pid) { close $near; next }
  my $far = IO::Socket::UNIX->new(Peer => $to{$listener}) or exit;
  my $both = IO::Select->new($near, $far);
  while (my @in = $both->can_read) { for my $from (@in) {
    my $other = $from == $near ? $far : $near;
    my $read = sysread($from, my $bytes, 65536);
    if (!$read) { $both->remove($from); shutdown($other, 1); exit if !$both->count; next }
    for (my $at = 0; $at < $read;) { my $written = syswrite($other, $bytes, $read - $at, $at); exit if !defined $written; $at += $written }
  } }
  exit;
} }`;

/**
 * Programs that know URLs reach the sandbox's sockets by ports of its own loopback, which it must have.
 * @param ports  by the socket's name
 * @returns what forwards, so that it can be ended before the sandbox is
 * @throws SandboxError
 */
export async function forwardPorts(
  sandbox: Sandbox,
  ports: Readonly<Record<string, number>>,
  ttlMs: number,
): Promise<Execution> {
  const pairs = Object.entries(ports).flatMap(([name, port]) => [String(port), `${SOCKETS}/${name}`]);
  const forwarder: Execution = sandbox.exec(["perl", "-e", PROGRAM, ...pairs], { stdin: "", deadlineMs: ttlMs });
  for await (const { data } of forwarder.chunks()) if (Buffer.from(data).includes("ready")) return forwarder;
  const { exitCode, stderr } = await forwarder.result;
  throw new SandboxError("START", `the sandbox's ports could not be opened: exit code ${exitCode}, ${stderr.trim()}`);
}
