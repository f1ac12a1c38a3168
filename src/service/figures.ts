/** Figures as all faces show them: terminal and page. */
export { span } from '../runtime/digest/slow.ts'

export const grouped = (value: number): string => String(Math.round(value)).replace(/\B(?=(?:\d{3})+$)/g, ',')
