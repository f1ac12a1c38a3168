/** Plays a fuzz test seed by seed: what is found is told by seed, also errors that nobody has caught. */
import type t from 'tap'

type Test = Pick<typeof t, 'same' | 'teardown'>

/** `wrongs` plays one seed, and returns what did not hold. */
export async function playSeeds<T extends Test>(
  test: T,
  seeds: readonly number[],
  wrongs: (test: T, seed: number) => Promise<string[]>,
): Promise<void> {
  const escaped: unknown[] = []
  const note = (error: unknown) => void escaped.push(error)
  process.on('uncaughtException', note)
  process.on('unhandledRejection', note)
  test.teardown(() => process.off('uncaughtException', note).off('unhandledRejection', note))
  for (const seed of seeds) {
    const found = await wrongs(test, seed)
    test.same([...found, ...escaped.splice(0).map(String)], [], `seed ${seed}`)
  }
}
