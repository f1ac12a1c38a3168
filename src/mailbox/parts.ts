/** Opaque data of a provider, by its name. It goes back to the provider unchanged. */
export type ProviderData = Record<string, Record<string, unknown>>

export interface TextPart {
  type: 'text'
  text: string
  providerData?: ProviderData
}

/** An image, a sound or another file: bytes, a data URL, an `https:` URL that the provider fetches, or base64. */
export interface MediaPart {
  type: 'image' | 'audio' | 'file'
  data: Uint8Array | string
  /** Media type, such as 'image/png'. Needed for bytes and base64. Source: RFC 2046. */
  mediaType?: string
  /** Name of the file, for the model. */
  name?: string
  providerData?: ProviderData
}

export type MessagePart = TextPart | MediaPart

/** Field of the metadata that has the parts. Nobody else may use it. */
export const PARTS = '$parts'

/** Returns the parts in metadata; undefined if there are none. What is no list came from foreign code: it is none. */
export function partsIn(metadata: object): MessagePart[] | undefined {
  const parts: unknown = Reflect.get(metadata, PARTS)
  return Array.isArray(parts) ? (parts as MessagePart[]) : undefined
}

export const withParts = (metadata: object | undefined, parts: readonly MessagePart[] | undefined): object => ({
  ...metadata,
  ...(parts && { [PARTS]: parts }),
})
