// SPDX-License-Identifier: Apache-2.0
import type { DescEnum, DescField, DescMessage } from "@bufbuild/protobuf";

/** Field numbers in descriptor.proto, which paths into a file consist of. */
const FILE_MESSAGES = 4;
const FILE_ENUMS = 5;
const MESSAGE_FIELDS = 2;
const MESSAGE_NESTED = 3;

/** The leading comment, in one line. Empty: it has none. */
export function commentOf(desc: DescField | DescMessage | DescEnum): string {
  const file = desc.kind === "field" ? desc.parent.file : desc.file;
  const path = pathOf(desc).join();
  const location = file.proto.sourceCodeInfo?.location.find((one) => one.path.join() === path);
  return (location?.leadingComments ?? "").trim().replaceAll(/\s*\n\s*/g, " ");
}

function pathOf(desc: DescField | DescMessage | DescEnum): number[] {
  if (desc.kind === "field") return [...pathOf(desc.parent), MESSAGE_FIELDS, desc.parent.fields.indexOf(desc)];
  if (desc.kind === "enum") return [FILE_ENUMS, desc.file.enums.indexOf(desc)];
  if (desc.parent) return [...pathOf(desc.parent), MESSAGE_NESTED, desc.parent.nestedMessages.indexOf(desc)];
  return [FILE_MESSAGES, desc.file.messages.indexOf(desc)];
}
