/** Asks the host for the bytes of a stored part. Code reads them where it is, so the thread waits for the answer. */
import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads'

/** Question of a thread. The host posts its answer, then sets the word and wakes the thread. */
export interface AskedBytes {
  readonly hash: string
  readonly word: Int32Array<SharedArrayBuffer>
}

/** Answer of the host. */
export interface AnsweredBytes {
  readonly hash: string
  readonly bytes: Uint8Array | undefined
}

/** Time after which a thread goes on without the bytes: its host does not answer. */
const LONGEST_WAIT_MS = 60_000

export function downloadsFrom(port: MessagePort): (hash: string) => Uint8Array | undefined {
  return (hash) => {
    const word = new Int32Array(new SharedArrayBuffer(4))
    port.postMessage({ hash, word } satisfies AskedBytes)
    Atomics.wait(word, 0, 0, LONGEST_WAIT_MS)
    for (let got = receiveMessageOnPort(port); got; got = receiveMessageOnPort(port)) {
      const answer = got.message as AnsweredBytes
      if (answer.hash === hash) return answer.bytes // others came too late for who has asked
    }
    return undefined
  }
}
