// SPDX-License-Identifier: Apache-2.0
/** `node deploy/images/python.ts <folder>`: the Python half's sources, and the requirements that running them has. */
import { copyPython } from "../pack/python.ts";

const target = process.argv[2];
if (target === undefined) {
  console.log("usage: node deploy/images/python.ts <folder>");
  process.exit(2);
}
copyPython(target);
