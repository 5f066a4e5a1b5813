// SPDX-License-Identifier: Apache-2.0
/** A run of sampled tokens with one label, as an engine reports it. Half-open: [start, end). */
export interface LabelSpan {
  readonly version: string;
  readonly start: number;
  readonly end: number;
}

/** A run of completion tokens with one policy version. Half-open: [start, end). */
export interface TokenSpan {
  start: number;
  end: number;
  policyVersion: bigint;
}

/**
 * The first label that is not the expected one, or undefined when the spans cover all `length` tokens, without a gap, under
 * the expected label (I5). A missing or broken list reads as label "" : tokens without a label prove nothing.
 */
export function foreignLabel(
  spans: readonly LabelSpan[] | undefined,
  length: number,
  expected: string,
): string | undefined {
  let covered = 0;
  for (const span of spans ?? []) {
    if (span.version !== expected) return span.version;
    if (span.start !== covered || span.end < span.start) return "";
    covered = span.end;
  }
  return covered === length ? undefined : "";
}

/** Appends a run; a run that touches the last one and has its version makes it longer. */
export function appendSpan(spans: TokenSpan[], start: number, end: number, policyVersion: bigint): void {
  if (end === start) return;
  const last = spans.at(-1);
  if (last?.end === start && last.policyVersion === policyVersion) last.end = end;
  else spans.push({ start, end, policyVersion });
}
