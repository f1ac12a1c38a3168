/**
 * The input of a call of a tool as it goes back to a provider: always a JSON object, since many take nothing else. What
 * the model wrote wrongly goes back as the field of one; the tool has told the model what was wrong.
 */
import { isObject } from '../checks/checks.ts'

/** Returns the input as an object. */
export function inputObject(input: string): object {
  const value = parsed(input)
  const inner = typeof value === 'string' ? parsed(value) : value // some models encode it twice
  if (isObject(inner)) return inner
  return input.trim() === '' || value === null ? {} : { input }
}

/** Returns the input as JSON, unchanged if it is that of an object. */
export const inputText = (input: string): string =>
  isObject(parsed(input)) ? input : JSON.stringify(inputObject(input))

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
