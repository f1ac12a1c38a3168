/** What a thread has printed is with the host before the thread says that it is done: it may be ended after that. */

export async function printed(): Promise<void> {
  await Promise.all([process.stdout, process.stderr].map(flushed))
}

async function flushed(stream: NodeJS.WriteStream): Promise<void> {
  if (stream.writableLength > 0) await new Promise<void>((resolve) => stream.write('', () => resolve()))
}
