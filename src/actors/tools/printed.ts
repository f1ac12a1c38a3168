/**
 * Flushes the output that a thread has printed to the host. The thread calls it before it reports that it is done,
 * because the host may terminate it after that.
 */

export async function printed(): Promise<void> {
  await Promise.all([process.stdout, process.stderr].map(flushed))
}

async function flushed(stream: NodeJS.WriteStream): Promise<void> {
  if (stream.writableLength > 0) await new Promise<void>((resolve) => stream.write('', () => resolve()))
}
