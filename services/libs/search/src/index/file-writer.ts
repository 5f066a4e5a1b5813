// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import { type FileHandle, open } from "node:fs/promises";

const BUFFER_BYTES = 1 << 20;

/** Writes a file from its beginning, knows its length and digest, and brings it to the disk when it is finished. */
export class FileWriter implements AsyncDisposable {
  readonly #file: FileHandle;
  readonly #hash = createHash("sha256");
  #buffer = Buffer.allocUnsafe(BUFFER_BYTES);
  #used = 0;
  #written = 0;

  private constructor(file: FileHandle) {
    this.#file = file;
  }

  static async create(path: string): Promise<FileWriter> {
    return new FileWriter(await open(path, "wx"));
  }

  /** Where the next byte goes. */
  get position(): number {
    return this.#written + this.#used;
  }

  /** True: wait for `flush` before more is written. */
  write(bytes: Uint8Array): boolean {
    if (this.#used + bytes.length > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, this.#used + bytes.length));
      this.#buffer.copy(larger, 0, 0, this.#used);
      this.#buffer = larger;
    }
    this.#buffer.set(bytes, this.#used);
    this.#used += bytes.length;
    return this.#used >= BUFFER_BYTES;
  }

  async flush(): Promise<void> {
    const bytes = this.#buffer.subarray(0, this.#used);
    this.#hash.update(bytes);
    for (let at = 0; at < bytes.length;) at += (await this.#file.write(bytes, at)).bytesWritten;
    this.#written += bytes.length;
    this.#used = 0;
  }

  async finish(): Promise<{ readonly bytes: number; readonly sha256: string }> {
    await this.flush();
    await this.#file.sync();
    return { bytes: this.#written, sha256: this.#hash.digest("hex") };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file.close();
  }
}
