// SPDX-License-Identifier: Apache-2.0

// An EventTarget keeps its listeners in a linked list and walks it at every add and remove: with 10,000 episodes under one
// signal that is 10,000 steps each. So there is one listener a signal, and a set behind it.

const hubs = new WeakMap<AbortSignal, Set<() => void>>();

/** Calls back once, when the signal aborts; not at all if it already has. @returns takes the callback back; harmless twice. */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  if (signal.aborted) return () => undefined;
  const hub = hubs.get(signal) ?? openHub(signal);
  hub.add(callback);
  return () => {
    hub.delete(callback);
  };
}

function openHub(signal: AbortSignal): Set<() => void> {
  const hub = new Set<() => void>();
  hubs.set(signal, hub);
  const tellAll = (): void => {
    const callbacks = [...hub];
    hub.clear();
    for (const callback of callbacks) callback();
  };
  signal.addEventListener("abort", tellAll, { once: true });
  return hub;
}
