// SPDX-License-Identifier: Apache-2.0
import { existsSync } from "node:fs";

/** Programs, not the shell scripts in front of them: those read settings of the machine. The headless shell needs half the memory. */
const PLACES = [
  "/usr/lib/chromium/chromium-headless-shell",
  "/usr/lib/chromium/chromium",
  "/usr/lib/chromium-browser/chromium-browser",
  "/usr/lib64/chromium-browser/chromium-browser",
  "/opt/google/chrome/chrome",
];

/** Of an installed Chromium. Undefined: none was found. */
export function findChromium(): string | undefined {
  return PLACES.find((path) => existsSync(path));
}

export const HOW_TO_INSTALL =
  "install it (Debian: apt-get install chromium-headless-shell), or name the program in WHETSTONE_BROWSER_PATH";
