/** Words of a command line, as text for a shell. */

/** Returns the text in quotes where it has to be. */
export function quoted(text: string, always = false): string {
  if (!always && /^[\w./:@%+=,-]+$/.test(text)) return text
  return `"${text.replaceAll(/[\\"$`]/g, '\\$&')}"`
}
