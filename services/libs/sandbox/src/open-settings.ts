// SPDX-License-Identifier: Apache-2.0
import { ConfigError } from "@whetstone/core";
import { HOST_AND_PORT, MOST_REACHED } from "./egress/reached.ts";
import type { OpenOptions, SandboxLimits } from "./sandbox.ts";

const DAY_MS = 86_400_000;

/** Default, least and most. */
const LIMITS = {
  memoryMiB: [512, 16, 1024 * 1024],
  cpus: [1, 0.01, 1024],
  processes: [128, 1, 100_000],
  diskMiB: [256, 1, 1024 * 1024],
  diskFiles: [65_536, 1, 100_000_000],
  openFiles: [1024, 16, 1_000_000],
  wallMs: [30_000, 1, DAY_MS],
} as const satisfies Record<keyof SandboxLimits, readonly [number, number, number]>;

/** Where a sandbox has folders of its own, or the system has. */
const NOT_OF_IMAGES = /^\/(workspace|tmp|proc|sys|dev|whetstone|etc)?(\/|$)/u;
/** What a sandbox runs. */
const NOT_EMPTY = /^\/(usr|bin|sbin|lib|lib64|run)(\/|$)/u;
const PLAIN_PATH = /^(\/(?!\.{1,2}(\/|$))[^/:,\0]+)+$/u;
const MOST_FOLDERS = 16;

const TTL = [3_600_000, 1000, 7 * DAY_MS] as const;

/** All that is not said is the default. @throws ConfigError that names each field which is out of its range. */
export function openSettings(options: OpenOptions) {
  const { files = [], network = "none", reach = [], imageFolders = [], prepared, signal } = options;
  const { emptyFolders = [] } = options;
  const names = Object.keys(LIMITS) as (keyof SandboxLimits)[];
  const values = names.map((name) => ({ name, value: options.limits?.[name] ?? LIMITS[name][0], range: LIMITS[name] }));
  const ttlMs = options.ttlMs ?? TTL[0];
  const all = [
    ...values.map((each) => ({ ...each, path: `limits.${each.name}` })),
    { path: "ttlMs", value: ttlMs, range: TTL },
  ];
  const violations = all
    .filter(({ value, range: [, least, most] }) => !(value >= least && value <= most))
    .map(({ path, range: [, least, most] }) => ({ path, reason: `must be between ${least} and ${most}` }))
    .concat(wrongFolders(imageFolders), wrongEmptyFolders(emptyFolders), wrongTargets(reach));
  if (violations.length > 0) throw new ConfigError(violations);
  const limits = Object.fromEntries(values.map(({ name, value }) => [name, value])) as unknown as SandboxLimits;
  return { limits, ttlMs, files, network, reach, imageFolders, emptyFolders, prepared, signal };
}

function wrongTargets(reach: readonly string[]) {
  const wrong = reach.flatMap((target, index) =>
    HOST_AND_PORT.test(target) ? [] : [{ path: `reach[${index}]`, reason: `${target} is not host:port` }],
  );
  const tooMany = { path: "reach", reason: `must be ${MOST_REACHED} at most` };
  return reach.length > MOST_REACHED ? [...wrong, tooMany] : wrong;
}

function wrongFolders(folders: readonly string[]) {
  const wrong = folders.flatMap((folder, index) =>
    PLAIN_PATH.test(folder) && !NOT_OF_IMAGES.test(folder)
      ? []
      : [{ path: `imageFolders[${index}]`, reason: `${folder} is no folder of an image's own: say it as /testbed` }],
  );
  const tooMany = { path: "imageFolders", reason: `must be ${MOST_FOLDERS} at most` };
  return folders.length > MOST_FOLDERS ? [...wrong, tooMany] : wrong;
}

function wrongEmptyFolders(folders: readonly string[]) {
  const wrong = folders.flatMap((folder, index) =>
    PLAIN_PATH.test(folder) && !NOT_OF_IMAGES.test(folder) && !NOT_EMPTY.test(folder)
      ? []
      : [{ path: `emptyFolders[${index}]`, reason: `${folder} cannot be an empty folder: say it as /app` }],
  );
  const tooMany = { path: "emptyFolders", reason: `must be ${MOST_FOLDERS} at most` };
  return folders.length > MOST_FOLDERS ? [...wrong, tooMany] : wrong;
}
