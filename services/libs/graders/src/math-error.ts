// SPDX-License-Identifier: Apache-2.0

/** A text is no expression that can be evaluated within the bounds. The message is meant for whoever wrote the text. */
export class MathError extends Error {
  override readonly name: string = "MathError";
}

/** An exact result would be larger than is held exactly. */
export class TooLargeError extends MathError {
  override readonly name = "TooLargeError";

  constructor() {
    super("number too large");
  }
}
