// SPDX-License-Identifier: Apache-2.0
import { experimental, type ChannelCredentials, type ServerCredentials } from "@grpc/grpc-js";
import type { TlsIdentity, TlsMaterial, TlsPeer } from "@whetstone/tls";

const { createCertificateProviderChannelCredentials, createCertificateProviderServerCredentials } = experimental;
type CaListener = experimental.CaCertificateUpdateListener;
type IdentityListener = experimental.IdentityCertificateUpdateListener;

/**
 * Our certificates as grpc-js wants them. Its own file watcher reads the three files one by one and takes whatever it finds: a
 * certificate with the next one's key, or none while they are swapped, and then refuses every connection.
 */
class IdentityProvider implements experimental.CertificateProvider {
  readonly #identity: TlsIdentity;
  readonly #ends = new Map<object, () => void>();

  constructor(identity: TlsIdentity) {
    this.#identity = identity;
  }

  addCaCertificateListener(listener: CaListener): void {
    this.#add(listener, ({ ca }) => {
      listener({ caCertificate: ca });
    });
  }

  removeCaCertificateListener(listener: CaListener): void {
    this.#remove(listener);
  }

  addIdentityCertificateListener(listener: IdentityListener): void {
    this.#add(listener, ({ cert, key }) => {
      listener({ certificate: cert, privateKey: key });
    });
  }

  removeIdentityCertificateListener(listener: IdentityListener): void {
    this.#remove(listener);
  }

  #add(key: object, tell: (material: TlsMaterial) => void): void {
    this.#ends.set(key, this.#identity.onChange(tell));
    process.nextTick(tell, this.#identity.material);
  }

  #remove(key: object): void {
    this.#ends.get(key)?.();
    this.#ends.delete(key);
  }
}

/** Callers must show a certificate of our authority; new connections use the newest certificates, open ones stay. */
export function serverCredentials(identity: TlsIdentity): ServerCredentials {
  const provider = new IdentityProvider(identity);
  return createCertificateProviderServerCredentials(provider, provider, true);
}

export function channelCredentials({ identity }: TlsPeer): ChannelCredentials {
  const provider = new IdentityProvider(identity);
  return createCertificateProviderChannelCredentials(provider, provider);
}
