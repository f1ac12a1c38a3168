/**
 * Text of a stranger, shown to a person who decides by it: nothing in it is invisible, and nothing changes the order of
 * the rest.
 */

/** Controls, format and direction characters, fillers, private and unassigned ones, every space but the plain one. */
const unseen = () => /(?! )[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]/gu

/** The same with what cannot be seen as `\u{...}`. Characters of `except` stay. */
export function visible(text: string, except = ''): string {
  return text.replaceAll(unseen(), (character) =>
    except.includes(character) ? character : `\\u{${character.codePointAt(0)!.toString(16)}}`,
  )
}
