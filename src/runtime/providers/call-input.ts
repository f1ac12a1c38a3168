import { isObject } from '../../shared/checks.ts'

export function inputObject(input: string): object {
  const value = parsed(input)
  const inner = typeof value === 'string' ? parsed(value) : value // some models encode it twice
  if (isObject(inner)) return inner
  return input.trim() === '' || value === null ? {} : { input }
}

export const inputText = (input: string): string =>
  isObject(parsed(input)) ? input : JSON.stringify(inputObject(input))

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
