// SPDX-License-Identifier: Apache-2.0
/** Layers of a dependency graph: what may start together, and, reversed, what may stop together. */

export interface Dependent {
  readonly name: string;
  readonly needs: readonly string[];
}

/**
 * Services of a layer need only services of earlier layers.
 * Throws on a cycle or an unknown name: both are mistakes in the table of services.
 */
export function startLayers<T extends Dependent>(services: readonly T[]): T[][] {
  const layers: T[][] = [];
  const placed = new Set<string>();
  let rest = [...services];
  while (rest.length > 0) {
    const layer = rest.filter((service) => service.needs.every((need) => placed.has(need)));
    if (layer.length === 0) throw new Error(`services wait for each other: ${rest.map((s) => s.name).join(", ")}`);
    for (const service of layer) placed.add(service.name);
    rest = rest.filter((service) => !placed.has(service.name));
    layers.push(layer);
  }
  return layers;
}
