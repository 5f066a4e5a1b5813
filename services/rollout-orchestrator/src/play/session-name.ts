// SPDX-License-Identifier: Apache-2.0

/** The gateway session of one try: unique, so that no try continues another's calls. Safe in a URL path. */
export function sessionName(episodeId: string, attempt: number, tryNumber: number, replay = 0): string {
  const play = replay === 0 ? attempt : `${attempt}r${replay}`;
  return `${episodeId.replaceAll("/", ".")}.${play}.${tryNumber}`;
}
