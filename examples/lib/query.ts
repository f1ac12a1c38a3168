/** What is asked: what the user has typed in, or else the example's own. A script has answers to its own alone, and says so. */
export function queryFrom(own: string, isPlayed: boolean): string {
  const typed = process.argv.slice(2).join(' ')
  if (typed === '' || !isPlayed) return typed || own
  console.error(`Without a key the script has answers to its own question alone. It is asked instead: ${own}\n`)
  return own
}
