/** Text from elsewhere, made safe for one line of a terminal. */

/** Agents' text must neither forge a second line nor steer a terminal; more than `most` characters are cut off. */
export function oneLine(text: string, most = 200): string {
  const clean = text.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ').trim()
  const letters = [...clean]
  return letters.length > most ? `${letters.slice(0, most - 1).join('')}…` : clean
}
