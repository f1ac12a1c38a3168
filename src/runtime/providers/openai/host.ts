/** Checks for a host of OpenAI itself, as opposed to those that speak its APIs. */
export function isOpenAI(hostname: string): boolean {
  return hostname === 'openai.com' || hostname.endsWith('.openai.com')
}
