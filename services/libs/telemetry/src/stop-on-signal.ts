// SPDX-License-Identifier: Apache-2.0

export interface StopOptions {
  /** Also stop when standard input ends, so that nothing outlives a supervisor. */
  readonly supervised: boolean;
  /** The process ends with code 1 when closing takes longer. Default 5,000. */
  readonly withinMs?: number | undefined;
}

/** At SIGTERM or SIGINT closes once and ends the process: code 0, or 1 when closing failed or took too long. */
export function stopOnSignal(close: () => Promise<void>, { supervised, withinMs = 5_000 }: StopOptions): void {
  let stopping = false;
  const stop = (): void => {
    if (stopping) return;
    stopping = true;
    setTimeout(() => process.exit(1), withinMs).unref();
    close().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  };
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
  if (supervised) process.stdin.resume().once("end", stop);
}
