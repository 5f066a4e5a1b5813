// SPDX-License-Identifier: Apache-2.0
import type { LibraryPin, PackageFile } from "./library.ts";

// Libraries of the Python package index whose source packages carry tests that pass without a network.

/** Pure Python, so that they run wherever Python 3.11 or newer does. */
const WHEELS = {
  freezegun: {
    requirement: "freezegun==1.5.5",
    sha256: "cd557f4a75cf074e84bc374249b9dd491eaeacd61376b9eb3c423282211619d2",
  },
  iniconfig: {
    requirement: "iniconfig==2.3.1",
    sha256: "9121e2c1fdb355232495be3194c8dfe87ccc2d5dee45947b78e68f499790d7a7",
  },
  packaging: {
    requirement: "packaging==26.3",
    sha256: "d7193f7c8e4e93f444fde0262bf90af30e16fa0ad0ad44cb553c87339b23cd1c",
  },
  pluggy: { requirement: "pluggy==1.7.0", sha256: "7dd7b0d8832ba3cb632c306926ded123429211b83641b35dc5c41ad2d34f9bec" },
  pygments: {
    requirement: "pygments==2.21.0",
    sha256: "2363c69b61c4a97c838da3b130dcd6468f4848992b21a82f2a63ec34377137d9",
  },
  pytest: { requirement: "pytest==9.2.0", sha256: "07acdcf88ec174f907dc01af70bf52d49b014bbab03faeeade31c96b18c2e588" },
  "python-dateutil": {
    requirement: "python-dateutil==4.0.0",
    sha256: "a5e246f79eb80475e691bf93862cead98decd8a498cf53ba0516fcdc0f50dc1c",
  },
  six: { requirement: "six==1.17.0", sha256: "4721f391ed90541fddacab5acf947aa0d3dc7d27b2e1e8eda2be8970586c3274" },
  sortedcontainers: {
    requirement: "sortedcontainers==2.4.0",
    sha256: "a163dcaede0f1c021485e957a39245190e74249897e2ae4b2aa38595db237ee0",
  },
  "text-unidecode": {
    requirement: "text-unidecode==1.3",
    sha256: "1311f10e8b895935241623731c2ba64f4c455287888b18189350b67134a822e8",
  },
} as const satisfies Record<string, PackageFile>;

/** What every library is tested with. */
const PYTEST = [WHEELS.pytest, WHEELS.pluggy, WHEELS.iniconfig, WHEELS.packaging, WHEELS.pygments];

export const LIBRARY_PINS: readonly LibraryPin[] = [
  {
    name: "semver",
    version: "3.1.1",
    sdist: { requirement: "semver==3.1.1", sha256: "149b26cabada6f63212f97e94505d21578cb1d280cf714827f328d5e70765fea" },
    wheels: [...PYTEST],
    suite: { paths: ["src"], packages: ["src/semver"], tests: ["tests"] },
    split: "train",
  },
  {
    name: "toolz",
    version: "1.2.0",
    sdist: { requirement: "toolz==1.2.0", sha256: "9667a038e9d6ecba37995e26cb2f59ec6420b6ad8dd9677de59db9b956b08490" },
    wheels: [...PYTEST],
    suite: { paths: ["."], packages: ["toolz"], tests: ["toolz/tests"] },
    split: "train",
  },
  {
    name: "inflection",
    version: "0.5.1",
    sdist: {
      requirement: "inflection==0.5.1",
      sha256: "1a29730d366e996aaacffb2f1f1cb9593dc38e2ddd30c91250c6dde09ea9b417",
    },
    wheels: [...PYTEST],
    suite: { paths: ["."], packages: ["inflection"], tests: ["test_inflection.py"] },
    split: "train",
  },
  {
    name: "boltons",
    version: "26.2.0",
    sdist: {
      requirement: "boltons==26.2.0",
      sha256: "d39cfd15c1a1c3bd4d705c82252fa9edb8e4f5e8cc039f8e39afac7b1b47e92c",
    },
    wheels: [...PYTEST],
    suite: { paths: ["."], packages: ["boltons"], tests: ["tests"] },
    split: "train",
  },
  {
    name: "tinydb",
    version: "4.9.0",
    sdist: { requirement: "tinydb==4.9.0", sha256: "6928b1fa785186bda7952a0ba05aaeedc883ede565ca9c7d608de44e5e75de70" },
    wheels: [...PYTEST],
    suite: { paths: ["."], packages: ["tinydb"], tests: ["tests"] },
    split: "train",
  },
  {
    name: "tabulate",
    version: "0.10.0",
    sdist: {
      requirement: "tabulate==0.10.0",
      sha256: "e2cfde8f79420f6deeffdeda9aaec3b6bc5abce947655d17ac662b126e48a60d",
    },
    wheels: [...PYTEST],
    suite: { paths: ["."], packages: ["tabulate"], tests: ["test"] },
    split: "train",
  },
  {
    name: "sqlparse",
    version: "0.6.1",
    sdist: {
      requirement: "sqlparse==0.6.1",
      sha256: "ca722573f848ff2d30e40ea30f53a104b7dea7635ea9285891263eb2c58fb6e7",
    },
    wheels: [...PYTEST],
    suite: { paths: ["."], packages: ["sqlparse"], tests: ["tests"] },
    split: "train",
  },
  {
    name: "python-slugify",
    version: "9.2.0",
    sdist: {
      requirement: "python-slugify==9.2.0",
      sha256: "cee32948083476013804de1667724fb1362dacb71e47b1d5d92adf8db6ee3298",
    },
    wheels: [...PYTEST, WHEELS["text-unidecode"]],
    suite: { paths: ["."], packages: ["slugify"], tests: ["tests"] },
    split: "heldout",
  },
  {
    name: "simpleeval",
    version: "1.0.8",
    sdist: {
      requirement: "simpleeval==1.0.8",
      sha256: "b417f869c11f2de034eb919820a825f35d12ce99f63a43971947ce73679eb9ba",
    },
    wheels: [...PYTEST],
    suite: { paths: ["."], packages: ["simpleeval.py"], tests: ["tests"] },
    split: "train",
  },
  {
    name: "voluptuous",
    version: "0.16.0",
    sdist: {
      requirement: "voluptuous==0.16.0",
      sha256: "006535e22fed944aec17bef6e8725472476194743c87bd233e912eb463f8ff05",
    },
    wheels: [...PYTEST],
    suite: { paths: ["."], packages: ["voluptuous"], tests: ["voluptuous/tests"] },
    split: "train",
  },
  {
    name: "webcolors",
    version: "25.10.0",
    sdist: {
      requirement: "webcolors==25.10.0",
      sha256: "62abae86504f66d0f6364c2a8520de4a0c47b80c03fc3a5f1815fedbef7c19bf",
    },
    wheels: [...PYTEST],
    suite: { paths: ["src", "."], packages: ["src/webcolors"], tests: ["tests"] },
    split: "heldout",
  },
  {
    name: "h11",
    version: "0.16.0",
    sdist: { requirement: "h11==0.16.0", sha256: "4e35b956cf45792e4caa5885e69fba00bdbc6ffafbfa020300e549b208ee5ff1" },
    wheels: [...PYTEST],
    suite: { paths: ["."], packages: ["h11"], tests: ["h11/tests"] },
    split: "heldout",
  },
  {
    name: "parso",
    version: "0.8.7",
    sdist: { requirement: "parso==0.8.7", sha256: "eaaac4c9fdd5e9e8852dc778d2d7405897ec510f2a298071453e5e3a07914bb1" },
    wheels: [...PYTEST],
    suite: { paths: ["."], packages: ["parso"], tests: ["test"] },
    split: "train",
  },
  {
    name: "intervaltree",
    version: "3.2.1",
    sdist: {
      requirement: "intervaltree==3.2.1",
      sha256: "f3f7e8baeb7dd75b9f7a6d33cf3ec10025984a8e66e3016d537e52130c73cfe2",
    },
    wheels: [...PYTEST, WHEELS["sortedcontainers"]],
    suite: { paths: ["."], packages: ["intervaltree"], tests: ["test"] },
    split: "train",
  },
  {
    name: "humanize",
    version: "4.17.0",
    sdist: {
      requirement: "humanize==4.17.0",
      sha256: "1d6a36c453dbfbb3f0b34601d2e0b4ce5d48d780305cd45714843f0068fde6ac",
    },
    wheels: [...PYTEST, WHEELS["freezegun"], WHEELS["python-dateutil"], WHEELS["six"]],
    suite: { paths: ["src"], packages: ["src/humanize"], tests: ["tests"] },
    split: "train",
  },
  {
    name: "mistune",
    version: "3.4.0",
    sdist: {
      requirement: "mistune==3.4.0",
      sha256: "2eaf7952af928ca8d33b779762effc1da517b62c6ad85ec8ca957e3b07b9782a",
    },
    wheels: [...PYTEST],
    suite: { paths: ["src"], packages: ["src/mistune"], tests: ["tests"] },
    split: "train",
  },
];
