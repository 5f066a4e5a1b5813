// SPDX-License-Identifier: Apache-2.0
import type { LibraryPin } from "./library.ts";

/** Libraries of npm whose packages carry tests of tape that pass without a network. What they import is locked in the CLI. */
export const NPM_LIBRARY_PINS: readonly LibraryPin[] = [
  {
    name: "qs",
    version: "6.17.1",
    sdist: { requirement: "qs@6.17.1", sha256: "b7405805e2055f9900dd48c42d226ed4ab51f5f43459ba4781c3f6f6763ed3de" },
    wheels: [],
    suite: { language: "javascript", paths: [], packages: ["lib"], tests: ["test"] },
    split: "train",
  },
  {
    name: "minimist",
    version: "1.2.8",
    sdist: {
      requirement: "minimist@1.2.8",
      sha256: "350a76c115b393c19d24654834261e5dc9f0e8cc5e08f3937fa80140f3e4ce83",
    },
    wheels: [],
    suite: { language: "javascript", paths: [], packages: ["index.js"], tests: ["test"] },
    split: "train",
  },
  {
    name: "jsonparse",
    version: "1.3.1",
    sdist: {
      requirement: "jsonparse@1.3.1",
      sha256: "cf6c2edd3a8f77080beabb6c46b51e5853b61422341a0ef2e05a9e83a90bffce",
    },
    wheels: [],
    suite: {
      language: "javascript",
      paths: [],
      packages: ["jsonparse.js"],
      tests: [
        "test/boundary.js",
        "test/offset.js",
        "test/primitives.js",
        "test/surrogate.js",
        "test/unvalid.js",
        "test/utf8.js",
      ],
    },
    split: "train",
  },
  {
    name: "wordwrap",
    version: "1.0.0",
    sdist: {
      requirement: "wordwrap@1.0.0",
      sha256: "c381f669202164c6495d22e7c2ed92f04ce4742c2770e5043c296ab3de780838",
    },
    wheels: [],
    suite: { language: "javascript", paths: [], packages: ["index.js"], tests: ["test"] },
    split: "train",
  },
  {
    name: "traverse",
    version: "0.6.11",
    sdist: {
      requirement: "traverse@0.6.11",
      sha256: "4f982e910cbf45660080c4063250353646069057158ec7190912efd4a9b4d4e4",
    },
    wheels: [],
    suite: { language: "javascript", paths: [], packages: ["index.js"], tests: ["test"] },
    split: "heldout",
  },
  {
    name: "json-stable-stringify",
    version: "1.3.0",
    sdist: {
      requirement: "json-stable-stringify@1.3.0",
      sha256: "08b2fe106dffdb79a032d814481dfd993bc85045afcd28344a660f88c8ab1690",
    },
    wheels: [],
    suite: { language: "javascript", paths: [], packages: ["index.js"], tests: ["test"] },
    split: "heldout",
  },
];
